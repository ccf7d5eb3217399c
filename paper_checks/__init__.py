"""The claims of the papers, checked by machine."""
