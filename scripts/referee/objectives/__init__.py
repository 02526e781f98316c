"""The field's objectives, one file each; `copies` has what they share."""
