"""The model itself cut: timetables as data, stages, the boundary between them."""
