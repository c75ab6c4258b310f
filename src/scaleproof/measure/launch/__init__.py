"""Who starts the ranks, watches them and says where they ran."""
