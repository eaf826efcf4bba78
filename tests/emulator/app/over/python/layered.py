NAME = "the upper layer"
