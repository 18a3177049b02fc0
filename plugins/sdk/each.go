package sdk

// DefaultFeePerNode is what PriceEach adds for a node beside the price of its volumes,
// USD per hour: it keeps a few cents from buying many small nodes.
const DefaultFeePerNode = 0.02

// PriceEach answers a request with price's price, USD per hour, for each offering, an
// index into the catalogue, of each pool, and with the usual fee per node. Steps, vetoes
// and limits can be added to the answer.
func PriceEach(req *PriceRequest, price func(offering int) float64) *PriceAnswer {
	ans := &PriceAnswer{Pools: make([]PoolPrices, len(req.Pools))}
	for i := range req.Pools {
		pool := &req.Pools[i]
		prices := make([]float64, len(pool.Offerings))
		for k, o := range pool.Offerings {
			prices[k] = price(o)
		}
		ans.Pools[i] = PoolPrices{USDPerHour: prices, FeePerNode: DefaultFeePerNode + pool.VolumesUSDPerHour}
	}
	return ans
}
