"""The only network code. Links know algebra's transfers, never what the bytes mean."""
