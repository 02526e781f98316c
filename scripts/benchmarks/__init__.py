"""Everything that is timed or whose memory is measured."""
