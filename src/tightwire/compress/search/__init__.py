"""AMC and its rivals: how hard to prune each layer, chosen by a search.

units.py, cost.py, clip.py          what is decided, what it costs, and hard budgets; problem.py: a search as one value
layers.py, groups.py                a network's layers; channels that go together
channels.py, reconstruct.py         channels pruned, the rest refitted by least squares
weights.py                          single weights, patterns, bits; measure.py: the error of many versions of a network
costs.py, latency.py, timing.py     multiply-adds, parameters, coded bytes, measured time; budget.py: as words
state.py, ddpg.py, replay.py, noise.py, amc.py, keep.py     the agent, its search, its checkpoint
rivals.py, knapsack.py              uniform, sensitivity, evolution
build.py, policy.py, apply.py       from a network to a search; policy.json; from a policy to a smaller network
"""
