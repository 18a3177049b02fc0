package fakekubelet_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/weir-project/weir/integration/fakekubelet"
)

// A machine that is ended while its registration is on the way ends; it does not register a second time.
func TestEndedWhileRegistering(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	k, err := fakekubelet.New(fakekubelet.Config{Client: client, Logger: zaptest.NewLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	created := make(chan context.CancelFunc, 1) // ends the machine whose Node is being made
	client.PrependReactor("create", "nodes", func(a kubetesting.Action) (bool, runtime.Object, error) {
		(<-created)()
		return true, a.(kubetesting.CreateAction).GetObject(), nil
	})
	for i := range 20 { // what a select chooses among ready cases differs from time to time
		ctx, cancel := context.WithCancel(t.Context())
		created <- cancel
		n, err := k.Start(ctx, fakekubelet.NodeSpec{
			Name: fmt.Sprintf("node-%d", i), ProviderID: fmt.Sprintf("aws:///us-east-1a/i-%d", i),
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("58"),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-n.Done():
		case <-time.After(limit):
			t.Fatalf("node %d: not ended in %v", i, limit)
		}
	}
}
