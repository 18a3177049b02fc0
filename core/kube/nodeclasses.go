package kube

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/weir-project/weir/core/api/awsv1"
	"github.com/weir-project/weir/core/api/keys"
	apiv1 "github.com/weir-project/weir/core/api/v1"
)

// NodeClasses reads and writes EC2NodeClasses as objects, for whoever finds out what they stand for.
type NodeClasses struct{ c *Clients }

// NodeClasses of the clients' cluster.
func (c *Clients) NodeClasses() NodeClasses { return NodeClasses{c} }

// Follow tells of every class there is and of each change, until the context ends; a class that is gone is told as nil. The
// objects must not be changed.
func (n NodeClasses) Follow(ctx context.Context, tell func(name string, class *awsv1.EC2NodeClass)) {
	lw := cache.NewListWatchFromClient(n.c.aws, "ec2nodeclasses", metav1.NamespaceAll, fields.Everything())
	told := func(obj any) {
		if class, ok := obj.(*awsv1.EC2NodeClass); ok {
			tell(class.Name, class)
		}
	}
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: lw, ObjectType: &awsv1.EC2NodeClass{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: told, UpdateFunc: func(_, obj any) { told(obj) },
			DeleteFunc: func(obj any) {
				name, err := cache.DeletionHandlingMetaNamespaceKeyFunc(obj)
				if err == nil {
					tell(name, nil)
				}
			},
		},
	})
	informer.RunWithContext(ctx)
}

// SetStatus writes the status of a class that has not changed since it was read; ErrConflict of the API server's kind where it has.
func (n NodeClasses) SetStatus(ctx context.Context, class *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	out := &awsv1.EC2NodeClass{}
	err := n.c.aws.Put().Resource("ec2nodeclasses").Name(class.Name).SubResource("status").Param("fieldManager", keys.FieldManager).Body(class).Do(ctx).Into(out)
	if err != nil {
		return nil, fmt.Errorf("status of ec2nodeclass %s: %w", class.Name, err)
	}
	return out, nil
}

// SetMetadata writes annotations and finalizers of a class that has not changed since it was read.
func (n NodeClasses) SetMetadata(ctx context.Context, class *awsv1.EC2NodeClass) (*awsv1.EC2NodeClass, error) {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": class.UID, "resourceVersion": class.ResourceVersion, "annotations": class.Annotations, "finalizers": class.Finalizers,
	}})
	if err != nil {
		return nil, fmt.Errorf("ec2nodeclass %s: %w", class.Name, err)
	}
	out := &awsv1.EC2NodeClass{}
	err = n.c.aws.Patch(types.MergePatchType).Resource("ec2nodeclasses").Name(class.Name).Param("fieldManager", keys.FieldManager).Body(body).Do(ctx).Into(out)
	if err != nil {
		return nil, fmt.Errorf("ec2nodeclass %s: %w", class.Name, err)
	}
	return out, nil
}

// Claims counts the NodeClaims that refer to a class, and lists the instance profile of every claim of
// the cluster, empty for one that does not name it.
func (n NodeClasses) Claims(ctx context.Context, class string) (count int, profiles []string, err error) {
	list := &apiv1.NodeClaimList{}
	if err := n.c.karpenter.Get().Resource("nodeclaims").Do(ctx).Into(list); err != nil {
		return 0, nil, fmt.Errorf("claims of ec2nodeclass %s: %w", class, err)
	}
	for _, c := range list.Items {
		if r := c.Spec.NodeClassRef; r != nil && r.Name == class && r.Kind == keys.KindEC2NodeClass {
			count++
		}
		profiles = append(profiles, c.Annotations[keys.InstanceProfileName])
	}
	return count, profiles, nil
}
