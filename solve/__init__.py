"""From sums to exact answers; nothing here sees a row or a file."""
