package awsv1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/weir-project/weir/core/api/keys"
)

var (
	// GroupVersion is karpenter.k8s.aws/v1.
	GroupVersion = schema.GroupVersion{Group: keys.GroupAWS, Version: "v1"}
	// EC2NodeClassKind names the kind of this package.
	EC2NodeClassKind = GroupVersion.WithKind(keys.KindEC2NodeClass)
	// EC2NodeClasses names the resource as a dynamic client wants it.
	EC2NodeClasses = GroupVersion.WithResource("ec2nodeclasses")

	// SchemeBuilder collects what AddToScheme adds.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)
	// AddToScheme registers the kinds of this package.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &EC2NodeClass{}, &EC2NodeClassList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
