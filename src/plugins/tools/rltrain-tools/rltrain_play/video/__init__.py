"""Videos of environments: the recorder, and the observer `video` of training."""
