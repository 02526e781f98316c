"""RARO on signed digits, and the rows of RARO on verl."""
