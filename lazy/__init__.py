"""What is made when it is first needed, so that starting takes less time; free to all, and knows nothing of ours."""
