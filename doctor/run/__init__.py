"""A run of many ranks: where each source belongs, whose clock it has, who waited for whom, and who failed first."""
