"""What a run leaves behind: schemas, atomic writing, reading."""
