package model

// Price is a strategy's word on one offering for one pool.
type Price struct {
	USDPerHour float64 // effective price; may differ from the market's
	Veto       string  // why the offering may not be used, or empty
}

// Prices is the answer of the strategies for all pools of a problem.
type Prices struct {
	ByPool map[string]PoolPrices // by pool name; a pool that is missing is priced at the market
}

// PoolPrices is the answer for one pool.
type PoolPrices struct {
	Strategy    string  // name and version
	Outcome     string  // ok, or why the built-in answered: dead, late, invalid, empty, refused
	FeePerNode  float64 // USD per hour added for each node, so that a few cents never buy hundreds of small ones
	Offerings   []Price // in the order of World.Offerings[pool.NodeClass.Name]; nil = market prices
	PreferLarge bool    // fill the largest legal machine first, then rank by price (first-fit)
}

// MoveScore is a strategy's word on one command.
type MoveScore struct {
	Accept bool
	Score  float64
	Reason string
}
