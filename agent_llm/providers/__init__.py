"""One adapter a provider, with its wire format and its stream. A provider's SDK is imported only here."""
