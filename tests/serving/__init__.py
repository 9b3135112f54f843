"""The playground: its runs, its server, its pages."""
