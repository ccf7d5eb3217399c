"""The machinery of the ledger, which does not depend on any paper.

==================  ================================================================
written by hand     ``ledger`` (claims and verdicts), ``papers`` (inventories, how a claim is registered),
                    ``domains`` (arguments), ``terms`` (formulas), ``enclosures`` (ball arithmetic)
checked             ``margins``, ``search``, ``certificates``, ``verification``
selected, run       ``names`` and ``selection`` (which claims), ``running`` (many claims)
shown               ``wording`` (text), ``records`` (JSON), ``report`` (the page)
==================  ================================================================
"""
