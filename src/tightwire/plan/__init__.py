"""Know before you pay: measure a model, a machine and a wire once; predict every recipe.

profile    what one worker computes, and what coding costs          (measured, saved as JSON)
cluster    who is joined to whom by which links                     (stated, or a file)
cost       the mean step of a recipe in closed form                 (α–β–γ, from the runtime's own transfers)
simulate   every event of a recipe on a cluster                     (stragglers, failures, other traffic)
efficiency how many samples a recipe needs                          (from probe runs; not mixed with the time of a step)
"""
