"""A search whose trial is a run of rltrain: the study, its workers, and populations."""
