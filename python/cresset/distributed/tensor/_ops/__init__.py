"""What programs ask about specs of distributed tensors.  Strategies of operators follow from the table (src/dist)."""
