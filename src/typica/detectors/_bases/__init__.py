"""What methods of one kind share: those of logits, of a head, of cosines, of scatters, of rows."""
