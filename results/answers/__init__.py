"""What is answered to questions about tables and models, as types without NumPy: made once, read by everybody."""
