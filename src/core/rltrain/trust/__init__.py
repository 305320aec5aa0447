"""What is taken from run folders, whoever wrote them."""
