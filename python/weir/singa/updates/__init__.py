"""updates - what the optimisers of weir.opt are made of: schedules of their numbers, groups of
parameters, means."""
