"""The site: the pages of ``docs/``, its examples with their pictures, and the reference, as pages of HTML."""
