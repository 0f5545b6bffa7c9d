"""The way of the durable record through Redis: its entries, the streams that carry them, their writer and reader."""
