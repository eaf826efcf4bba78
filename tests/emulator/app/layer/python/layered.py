NAME = "the one below"
