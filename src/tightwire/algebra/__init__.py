"""Values and protocols, no I/O: what a recipe is made of. Everything else imports this and never the reverse."""
