package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/mail"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/weir-project/weir/core/catalogue"
	awsfleet "github.com/weir-project/weir/core/cloud/aws/fleet"
	"github.com/weir-project/weir/core/cloud/sim"
	"github.com/weir-project/weir/core/model"
	"github.com/weir-project/weir/infra/crds"
	"github.com/weir-project/weir/integration/aws/ec2front"
	"github.com/weir-project/weir/integration/aws/moto"
	"github.com/weir-project/weir/integration/fakekubelet"
	"github.com/weir-project/weir/integration/harness"
)

const awsManifests = `
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiFamily: AL2023
  amiSelectorTerms: [{alias: al2023@latest}]
  role: node-e2e
  tags: {team: a}
  subnetSelectorTerms: [{tags: {karpenter.sh/discovery: e2e}}]
  securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: e2e}}]
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    metadata: {labels: {team: a}}
    spec:
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
      - {key: karpenter.k8s.aws/instance-category, operator: In, values: [c, m]}
      - {key: karpenter.k8s.aws/instance-generation, operator: Gt, values: ["4"]}
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
  disruption:
    consolidationPolicy: WhenEmpty
    consolidateAfter: 0s
    budgets:
    - {nodes: "100%"}
    - {nodes: "0", reasons: [Drifted]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 6
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {team: a}
      containers: [{name: main, image: example.com/none, resources: {requests: {cpu: "1", memory: 2Gi}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 5, selector: {matchLabels: {app: web}}}
`

// TestScalerBuysOnEC2: the real scaler with the AWS provider over the wire, once with someone else's reading of all of AWS, and
// once with an EC2 that behaves beside someone else's IAM, SSM, EKS, SQS and DynamoDB. Pods come, machines are bought, their
// kubelets join by the user data that was really sent, pods run; one machine is about to be taken, and its pods run on another;
// the pods go, the machines are given back, and with the class its templates and profile go.
func TestScalerBuysOnEC2(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	t.Run("moto", func(t *testing.T) { scalerBuys(t, motoEC2(t)) })
	t.Run("front", func(t *testing.T) { scalerBuys(t, ownEC2(t)) })
}

// anEC2 is where machines are bought.
type anEC2 struct {
	manifests, image string
	clients          func(others *moto.Server) (config sdk.Config, environ []string) // of the test and of the scaler
	taken            func(id, zone string) (events []string)                         // the machine goes: what is told of it
}

// motoEC2 gives instances the default group, not that of their template: drift is held back. It takes no machine, and says so all the same.
func motoEC2(*testing.T) anEC2 {
	return anEC2{
		manifests: awsManifests, image: motoImage,
		clients: func(all *moto.Server) (sdk.Config, []string) { return all.Config(), all.Environ() },
		taken: func(id, zone string) []string {
			return []string{fmt.Sprintf(`{"version":"0","id":"e-1","detail-type":"EC2 Spot Instance Interruption Warning","source":"aws.ec2","account":"%s","time":"%s","region":"%s",
"resources":["arn:aws:ec2:%s:instance/%s"],"detail":{"instance-id":"%s","instance-action":"terminate"}}`, moto.Account, time.Now().UTC().Format(time.RFC3339), moto.Region, zone, id, id)}
		},
	}
}

// ownEC2 behaves: it sells spot machines by its prices, and takes one with two minutes' notice. Drift is not held back.
func ownEC2(t *testing.T) anEC2 {
	t.Helper()
	const image = "ami-00000000000000001"
	front := ec2front.Start(t, ec2front.Options{Delays: sim.Delays{Run: 2 * time.Second, Terminate: 2 * time.Second, Listed: time.Second}})
	front.AddImage(ec2front.Image{ID: image, Name: "amazon-eks-node-al2023-x86_64", Owner: "amazon", Arch: "x86_64", Created: time.Now().Add(-24 * time.Hour)})
	t.Cleanup(func() {
		if calls := front.Calls(); calls["CreateFleet"] == 0 || calls["TerminateInstances"] == 0 || calls["DeleteLaunchTemplate"] == 0 {
			t.Errorf("EC2 was asked for %v", calls)
		}
	})
	manifests := awsManifests
	for old, with := range map[string]string{`    - {nodes: "0", reasons: [Drifted]}` + "\n": "", "[on-demand]": "[spot]"} {
		if strings.Count(manifests, old) != 1 {
			t.Fatalf("the manifests do not say %q once", old)
		}
		manifests = strings.Replace(manifests, old, with, 1)
	}
	return anEC2{
		manifests: manifests, image: image,
		clients: func(others *moto.Server) (sdk.Config, []string) {
			return front.Config(), append(others.Environ(), "AWS_ENDPOINT_URL_EC2="+front.URL())
		},
		taken: func(id, _ string) (events []string) {
			before := int64(len(front.EC2().Events(0)))
			if err := front.EC2().Reclaim(id); err != nil {
				t.Error(err)
			}
			for _, e := range front.EC2().Events(before) {
				events = append(events, string(e.JSON))
			}
			return events
		},
	}
}

// scalerBuys is the whole way on one EC2.
func scalerBuys(t *testing.T, on anEC2) {
	t.Helper()
	c := harness.Cluster(t, harness.NodeMonitorGrace(nodeGrace))
	c.InstallCRDs(t, crds.FS)
	server, err := c.Client.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	aws := moto.Own(t, moto.PublicParameters(map[string]string{
		fmt.Sprintf("/aws/service/eks/optimized-ami/%s.%s/amazon-linux-2023/x86_64/standard/recommended/image_id", server.Major, server.Minor): on.image,
	}))
	ec2Config, environ := on.clients(aws)
	cloud := newAWSAccount(t, aws, ec2Config)
	events := newQueue(t, aws, "q-e2e")
	bin := programs(t)
	begin(t, func(string) {}, withEnv(t, environ, filepath.Join(bin, "weir-scaler")), "--kubeconfig", c.Kubeconfig, "--cluster-name", "e2e",
		"--region", moto.Region, "--account", moto.Account, "--cloud", "aws", "--cluster-endpoint", "https://cluster.example.com", "--ledger", "dynamodb",
		"--ledger-table", aws.Table(t), "--interruption-queue", events.name, "--strategy-binary", filepath.Join(bin, "weir-strategy"), "--metrics-port", "0", "--health-probe-port", "0")
	f := &fleetOnEC2{fleet: &fleet{ControlPlane: c, t: t, ns: metav1.NamespaceDefault}, cloud: cloud}
	f.join()
	c.Apply(t, metav1.NamespaceDefault, on.manifests)
	var nodes []string
	harness.Eventually(t, "six pods on machines of EC2", patience, func(ctx context.Context) error {
		on, err := f.ready(ctx, "web")
		if err == nil && len(on) != 6 {
			err = fmt.Errorf("%d of 6 are ready", len(on))
		}
		nodes = on
		return err
	})
	f.checkMachines(nodes)
	f.reclaim(events, nodes[0], on.taken)

	if _, err := c.Client.AppsV1().Deployments(metav1.NamespaceDefault).Patch(t.Context(), "web", "application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "every machine is given back", patience, func(ctx context.Context) error {
		left, err := f.cloud.fleet.List(ctx)
		if err != nil {
			return err
		}
		claims, err := c.List(ctx, claimKind, "", "")
		if err != nil {
			return err
		}
		list, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if len(left)+len(claims)+len(list.Items) > 0 {
			return fmt.Errorf("%d machines, %d claims and %d nodes are left", len(left), len(claims), len(list.Items))
		}
		return nil
	})

	class := schema.GroupVersionKind{Group: "karpenter.k8s.aws", Version: "v1", Kind: "EC2NodeClass"}
	if err := c.Delete(t.Context(), class, "", "default"); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the class and what was made for it are gone", patience, func(ctx context.Context) error {
		if _, err := c.Get(ctx, class, "", "default"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the class is there: %w", err)
		}
		templates, err := f.cloud.ec2.DescribeLaunchTemplates(ctx, &ec2.DescribeLaunchTemplatesInput{})
		if err != nil {
			return err
		}
		profiles, err := f.cloud.iam.ListInstanceProfiles(ctx, &iam.ListInstanceProfilesInput{})
		if err != nil {
			return err
		}
		if n, m := len(templates.LaunchTemplates), len(profiles.InstanceProfiles); n+m > 0 {
			return fmt.Errorf("%d templates and %d profiles are left", n, m)
		}
		return nil
	})
}

var claimKind = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodeClaim"}

var poolKind = schema.GroupVersionKind{Group: "karpenter.sh", Version: "v1", Kind: "NodePool"}

// motoImage is the one image for nodes of EKS that moto has.
const motoImage = "ami-ekslinux"

// queue is an interruption queue of SQS.
type queue struct {
	t         *testing.T
	sqs       *sqs.Client
	name, url string
}

func newQueue(t *testing.T, server *moto.Server, name string) *queue {
	t.Helper()
	q := &queue{t: t, sqs: sqs.NewFromConfig(server.Config()), name: name}
	out, err := q.sqs.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name})
	if err != nil {
		t.Fatal(err)
	}
	q.url = *out.QueueUrl
	return q
}

func (q *queue) send(body string) {
	q.t.Helper()
	if _, err := q.sqs.SendMessage(q.t.Context(), &sqs.SendMessageInput{QueueUrl: &q.url, MessageBody: &body}); err != nil {
		q.t.Fatal(err)
	}
}

// left counts the messages that have not been deleted.
func (q *queue) left(ctx context.Context) (n int, err error) {
	waits, hidden := sqstypes.QueueAttributeNameApproximateNumberOfMessages, sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible
	out, err := q.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &q.url, AttributeNames: []sqstypes.QueueAttributeName{waits, hidden}})
	if err != nil {
		return 0, err
	}
	for _, k := range []sqstypes.QueueAttributeName{waits, hidden} {
		i, err := strconv.Atoi(out.Attributes[string(k)])
		if err != nil {
			return 0, fmt.Errorf("%s: %w", k, err)
		}
		n += i
	}
	return n, nil
}

// reclaim announces by the queue, between garbage, that AWS takes the node's machine: it goes, and the pods run elsewhere, one after
// the other as their budget wants.
func (f *fleetOnEC2) reclaim(events *queue, name string, taken func(id, zone string) []string) {
	f.t.Helper()
	node, err := f.Client.CoreV1().Nodes().Get(f.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	id := model.InstanceID(node.Spec.ProviderID)
	now := time.Now().UTC().Format(time.RFC3339)
	defer f.watchBudget("web", 5)()
	events.send("abcd")
	for _, body := range taken(id, node.Labels[model.LabelZone]) {
		events.send(body)
	}
	events.send(fmt.Sprintf(`{"version":"0","id":"e-2","detail-type":"EC2 Instance State-change Notification","source":"aws.ec2","account":"%s","time":"%s","region":"%s",
"resources":[],"detail":{"instance-id":"%s","state":"running"}}`, moto.Account, now, moto.Region, id))
	harness.Eventually(f.t, "the pods of the machine that is taken run elsewhere", patience, func(ctx context.Context) error {
		on, err := f.ready(ctx, "web")
		if err != nil {
			return err
		}
		if len(on) != 6 || slices.Contains(on, name) {
			return fmt.Errorf("%d of 6 are ready, on %v; the machine of %s is taken", len(on), on, name)
		}
		n, err := events.left(ctx)
		if err == nil && n > 0 {
			err = fmt.Errorf("%d messages are left", n)
		}
		return err
	})
}

// awsAccount is the account of the cluster: network, role and the cluster itself as EKS knows it.
type awsAccount struct {
	ec2   *ec2.Client
	iam   *iam.Client
	fleet *awsfleet.Fleet
}

func newAWSAccount(t *testing.T, server *moto.Server, ec2Config sdk.Config) *awsAccount {
	t.Helper()
	cfg, ctx, cluster := server.Config(), t.Context(), "e2e"
	a := &awsAccount{ec2: ec2.NewFromConfig(ec2Config), iam: iam.NewFromConfig(cfg)}
	a.fleet = awsfleet.New(a.ec2, cluster, time.Now)
	tag := func(kind types.ResourceType) []types.TagSpecification {
		return []types.TagSpecification{{ResourceType: kind, Tags: []types.Tag{{Key: sdk.String("karpenter.sh/discovery"), Value: &cluster}}}}
	}
	vpc, err := a.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: sdk.String("10.0.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	var subnets []string
	for i, zone := range []string{moto.Region + "a", moto.Region + "b"} {
		out, err := a.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, AvailabilityZone: &zone, CidrBlock: sdk.String(fmt.Sprintf("10.0.%d.0/20", i*16)), TagSpecifications: tag("subnet")})
		if err != nil {
			t.Fatal(err)
		}
		subnets = append(subnets, *out.Subnet.SubnetId)
	}
	if _, err := a.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: &cluster, Description: &cluster, VpcId: vpc.Vpc.VpcId, TagSpecifications: tag("security-group")}); err != nil {
		t.Fatal(err)
	}
	role, err := a.iam.CreateRole(ctx, &iam.CreateRoleInput{RoleName: sdk.String("node-e2e"), AssumeRolePolicyDocument: sdk.String("{}")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = eks.NewFromConfig(cfg).CreateCluster(ctx, &eks.CreateClusterInput{Name: &cluster, RoleArn: role.Role.Arn, ResourcesVpcConfig: &ekstypes.VpcConfigRequest{SubnetIds: subnets},
		KubernetesNetworkConfig: &ekstypes.KubernetesNetworkConfigRequest{ServiceIpv4Cidr: sdk.String("10.100.0.0/16")}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// fleetOnEC2 is a fleet whose nodes are instances of EC2.
type fleetOnEC2 struct {
	*fleet
	cloud *awsAccount
}

// join plays the machines until the test ends: a kubelet for each instance that runs, by its user data; and the cloud
// controller manager, which deletes nodes whose instance is gone.
func (f *fleetOnEC2) join() {
	f.t.Helper()
	kubelets := f.kubelet()
	ctx, cancel := context.WithCancel(f.t.Context())
	var wg sync.WaitGroup
	f.t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	wg.Go(func() {
		started := map[string]*fakekubelet.Node{}
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			if err := f.look(ctx, kubelets, started); err != nil && ctx.Err() == nil {
				f.t.Errorf("machines: %v", err)
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

func (f *fleetOnEC2) look(ctx context.Context, kubelets *fakekubelet.Kubelets, started map[string]*fakekubelet.Node) error {
	out, err := f.cloud.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})
	if err != nil {
		return err
	}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			id := sdk.ToString(i.InstanceId)
			switch n := started[id]; {
			case i.State.Name == types.InstanceStateNameRunning && n == nil:
				spec, err := f.kubeletOf(ctx, i)
				if err != nil {
					return fmt.Errorf("instance %s: %w", id, err)
				}
				if started[id], err = kubelets.Start(ctx, spec); err != nil {
					return err
				}
			case i.State.Name == types.InstanceStateNameTerminated && n != nil:
				n.Terminate()
				if err := f.Client.CoreV1().Nodes().Delete(ctx, n.Name(), metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return err
				}
				delete(started, id)
			}
		}
	}
	return nil
}

// nodeConfig is what nodeadm takes from user data.
type nodeConfig struct {
	Kind string `json:"kind"`
	Spec struct {
		Cluster struct{ Name, APIServerEndpoint, CIDR string } `json:"cluster"`
		Kubelet struct {
			Config struct {
				MaxPods            int64          `json:"maxPods"`
				RegisterWithTaints []corev1.Taint `json:"registerWithTaints"`
			} `json:"config"`
			Flags []string `json:"flags"`
		} `json:"kubelet"`
	} `json:"spec"`
}

// kubeletOf reads the instance's user data as nodeadm does: the last document counts.
func (f *fleetOnEC2) kubeletOf(ctx context.Context, i types.Instance) (fakekubelet.NodeSpec, error) {
	id, name := sdk.ToString(i.InstanceId), string(i.InstanceType)
	attribute, err := f.cloud.ec2.DescribeInstanceAttribute(ctx, &ec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: types.InstanceAttributeNameUserData})
	if err != nil {
		return fakekubelet.NodeSpec{}, err
	}
	if attribute.UserData == nil {
		return fakekubelet.NodeSpec{}, fmt.Errorf("no user data")
	}
	text, err := base64.StdEncoding.DecodeString(sdk.ToString(attribute.UserData.Value))
	if err != nil {
		return fakekubelet.NodeSpec{}, err
	}
	config, err := lastNodeConfig(string(text))
	if err != nil {
		return fakekubelet.NodeSpec{}, fmt.Errorf("user data: %w\n%s", err, text)
	}
	if config.Spec.Cluster.Name != "e2e" || config.Spec.Cluster.CIDR != "10.100.0.0/16" || config.Spec.Cluster.APIServerEndpoint != "https://cluster.example.com" {
		return fakekubelet.NodeSpec{}, fmt.Errorf("cluster %+v", config.Spec.Cluster)
	}
	labels := map[string]string{}
	for _, flag := range config.Spec.Kubelet.Flags {
		if list, ok := strings.CutPrefix(flag, "--node-labels="); ok {
			if list, err = strconv.Unquote(list); err != nil {
				return fakekubelet.NodeSpec{}, err
			}
			for _, pair := range strings.Split(list, ",") {
				k, v, _ := strings.Cut(pair, "=")
				labels[k] = v
			}
		}
	}
	zone := sdk.ToString(i.Placement.AvailabilityZone)
	table := catalogue.Embedded()
	var known *model.InstanceType
	for _, o := range table.Offerings(&model.NodeClass{Family: "AL2023"}, []string{zone}, catalogue.Options{Region: moto.Region}) {
		if o.Type.Name == name {
			known = o.Type
		}
	}
	if known == nil {
		return fakekubelet.NodeSpec{}, fmt.Errorf("type %s is not in the table", name)
	}
	for _, k := range []string{model.LabelInstanceType, model.LabelArch, model.LabelOS, model.LabelRegion} { // what kubelet and cloud controller manager set
		labels[k] = known.Labels[k]
	}
	labels[model.LabelZone] = zone
	amounts := func(in map[string]string) (corev1.ResourceList, error) {
		out := corev1.ResourceList{}
		for k, v := range in {
			q, err := resource.ParseQuantity(v)
			if err != nil {
				return nil, err
			}
			out[corev1.ResourceName(k)] = q
		}
		out[corev1.ResourcePods] = *resource.NewQuantity(config.Spec.Kubelet.Config.MaxPods, resource.DecimalSI)
		return out, nil
	}
	capacity, err := amounts(known.Capacity.Map())
	if err != nil {
		return fakekubelet.NodeSpec{}, err
	}
	allocatable, err := amounts(known.Allocatable.Map())
	if err != nil {
		return fakekubelet.NodeSpec{}, err
	}
	return fakekubelet.NodeSpec{Name: "ip-" + strings.TrimPrefix(id, "i-") + ".ec2.internal", ProviderID: model.ProviderID(zone, id), Labels: labels,
		Taints: config.Spec.Kubelet.Config.RegisterWithTaints, Capacity: capacity, Allocatable: allocatable}, nil
}

func lastNodeConfig(text string) (*nodeConfig, error) {
	msg, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	_, boundary, _ := strings.Cut(msg.Header.Get("Content-Type"), `boundary="`)
	var last *nodeConfig
	for r := multipart.NewReader(msg.Body, strings.TrimSuffix(boundary, `"`)); ; {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) && last != nil {
			return last, nil
		}
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		if p.Header.Get("Content-Type") == "application/node.eks.aws" {
			last = &nodeConfig{}
			if err := yaml.Unmarshal(body, last); err != nil {
				return nil, err
			}
		}
	}
}

// checkMachines compares nodes, claims and instances.
func (f *fleetOnEC2) checkMachines(on []string) {
	f.t.Helper()
	machines, err := f.cloud.fleet.List(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	claims, err := f.List(f.t.Context(), claimKind, "", "")
	if err != nil {
		f.t.Fatal(err)
	}
	slices.Sort(on)
	if n := len(slices.Compact(on)); n == 0 || len(machines) != len(claims) || len(machines) < n {
		f.t.Fatalf("%d machines for %d claims, pods on %d nodes", len(machines), len(claims), n)
	}
	for _, m := range machines {
		for k, want := range map[string]string{"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default", "eks:eks-cluster-name": "e2e",
			"kubernetes.io/cluster/e2e": "owned", "team": "a"} {
			if m.Tags[k] != want {
				f.t.Errorf("instance %s has tag %s=%q, want %q", m.ID, k, m.Tags[k], want)
			}
		}
		if !slices.ContainsFunc(claims, func(c unstructured.Unstructured) bool {
			id, _, err := unstructured.NestedString(c.Object, "status", "providerID")
			return err == nil && id == m.ProviderID()
		}) {
			f.t.Errorf("no claim has instance %s", m.ID)
		}
	}
}
