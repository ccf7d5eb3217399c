"""The ledger's machinery: it knows no paper.

==================  ================================================================
written by hand     ``ledger`` (claims and verdicts), ``papers`` (inventories, how a claim is registered),
                    ``domains`` (arguments), ``certification`` and ``enclosures`` (ball arithmetic)
checked             ``margins``, ``search``, ``certification``
asked for           ``names`` and ``selection`` (which claims), ``running`` (many claims)
shown               ``wording`` and ``mathematics`` (text), ``records`` (JSON), ``report`` (the page)
==================  ================================================================
"""
