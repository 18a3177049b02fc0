package provision

import "github.com/weir-project/weir/core/model"

// Cost is what a plan buys: market price in USD per hour, nodes, and pods that it leaves
// without a place.
func Cost(p *model.Plan) (usdPerHour float64, nodes, unplaced int) {
	for _, n := range p.Launch {
		usdPerHour += n.Offering.USDPerHour
	}
	return usdPerHour, len(p.Launch), len(p.Unplaced)
}
