package aws

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/weir-project/weir/core/api/awsv1"
)

// Subnets, reservations and classes that come and go leave nothing behind; a subnet that was full counts as free once the time is over.
func TestTheProviderForgets(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	p := New(Config{Region: "us-east-1", Now: func() time.Time { return now }}, nil, nil)
	for round := range 1000 {
		subnet, reservation := fmt.Sprint("subnet-", round), fmt.Sprint("cr-", round)
		for _, name := range []string{"stays", fmt.Sprint("goes-", round)} {
			p.SetClass(&awsv1.EC2NodeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: awsv1.EC2NodeClassStatus{
				Subnets: []awsv1.Subnet{{ID: subnet, Zone: "us-east-1a"}}, CapacityReservations: []awsv1.CapacityReservation{{ID: reservation}},
			}}, map[string]int{subnet: 10, reservation: 1})
		}
		p.fleet.Full(subnet)
		if n := p.addresses(subnet); n != 0 {
			t.Fatalf("%d addresses in a full subnet", n)
		}
		p.DropClass(fmt.Sprint("goes-", round))
		now = now.Add(time.Minute)
	}
	if len(p.free) != 2 || len(p.shut) != 1 || len(p.classes) != 1 || len(p.types) > 1 {
		t.Errorf("%d counts, %d full subnets, %d classes, %d lists of types are kept", len(p.free), len(p.shut), len(p.classes), len(p.types))
	}
	now = now.Add(fullFor)
	if n := p.addresses("subnet-999"); n != 10 {
		t.Errorf("%d addresses after the time", n)
	}
}
