"""Programs made smaller before they are planned: dead code, renamed storage, scalars."""
