"""Tables as they come to be and change hands, the commit path that moves them, and what follows a receipt."""
