"""What is shown of a fit on the page of its run and on that of its model."""
