package weircdk

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseks"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// InterruptionGroup is the Kubernetes group of the function; the chart binds it.
const InterruptionGroup = "weir:interruption"

// Timings and sizes of the interruption path.
const (
	respondSeconds    = 10  // the direct call taints, starts to evict, and returns
	drainSeconds      = 150 // a drain works through what is left of a two-minute notice
	visibilitySeconds = 180 // an unfinished drain comes back after so long
	drainReceives     = 5   // then the message is a dead letter
	drainConcurrency  = 10  // at most, and reserved unless told otherwise
	drainBatch        = 10
	memoryMB          = 512
)

// InterruptionProps of an Interruption.
type InterruptionProps struct {
	ClusterName, Endpoint, CertificateAuthority string
	LambdaDir                                   string
	Ledger                                      *LedgerTable // that the scaler uses too; nil = nothing is remembered
	Network                                     *Network     // where the functions run; nil = outside a VPC
	Key                                         *CustomerKey // of queues and logs; nil = those of AWS
	Reserved                                    int          // concurrent runs of the drainer that nobody else may use; 0 = none
}

// Interruption gets workloads off machines that AWS is about to take. Each event goes
// two ways at once:
//
//   - directly to the responder, which taints the node within the second and has ten
//     seconds for evictions. It is the fast way and is not repeated.
//   - into the drain queue, which waits until the responder has ended and then feeds
//     the drainer: the same program with the time to see a drain through. Here
//     nothing is lost: what stays unfinished comes back, and in the end is a dead
//     letter.
//
// Both do the same idempotent steps, so that either alone is enough.
type Interruption struct {
	Construct               constructs.Construct
	Responder, Drainer      awslambda.Function
	DrainQueue, DeadLetters awssqs.Queue
	Role                    awsiam.Role
	AccessEntry             awseks.CfnAccessEntry
}

// NewInterruption makes functions, queues, rules and the role with its access entry.
func NewInterruption(scope constructs.Construct, id string, p InterruptionProps) *Interruption {
	c := constructs.NewConstruct(scope, jsii.String(id))
	i := &Interruption{Construct: c}
	i.DeadLetters = awssqs.NewQueue(c, jsii.String("DeadLetters"), &awssqs.QueueProps{
		Encryption: awssqs.QueueEncryption_SQS_MANAGED, EnforceSSL: jsii.Bool(true),
		RetentionPeriod: awscdk.Duration_Days(jsii.Number(14)),
	})
	i.DrainQueue = awssqs.NewQueue(c, jsii.String("DrainQueue"), &awssqs.QueueProps{
		Encryption: awssqs.QueueEncryption_SQS_MANAGED, EnforceSSL: jsii.Bool(true),
		DeliveryDelay:     awscdk.Duration_Seconds(jsii.Number(respondSeconds)),
		VisibilityTimeout: awscdk.Duration_Seconds(jsii.Number(visibilitySeconds)),
		RetentionPeriod:   awscdk.Duration_Days(jsii.Number(1)),
		DeadLetterQueue:   &awssqs.DeadLetterQueue{Queue: i.DeadLetters, MaxReceiveCount: jsii.Number(drainReceives)},
	})
	p.Key.queue(i.DeadLetters)
	p.Key.queue(i.DrainQueue)
	i.Role = awsiam.NewRole(c, jsii.String("Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("Weir's interruption functions on cluster " + p.ClusterName),
	})
	i.functions(c, p)
	i.rules(c, p.Ledger != nil)
	p.Ledger.Grant(c, "LedgerPolicy", i.Role, false)
	// The CDK's own AccessEntry knows no groups.
	i.AccessEntry = awseks.NewCfnAccessEntry(c, jsii.String("AccessEntry"), &awseks.CfnAccessEntryProps{
		ClusterName: jsii.String(p.ClusterName), PrincipalArn: i.Role.RoleArn(), Type: jsii.String("STANDARD"),
		KubernetesGroups: jsii.Strings(InterruptionGroup),
	})
	return i
}

func (i *Interruption) functions(c constructs.Construct, p InterruptionProps) {
	code := awslambda.Code_FromAsset(jsii.String(p.LambdaDir), nil)
	var groups []string
	function := func(id, description string, props awslambda.FunctionProps) awslambda.Function {
		logs := logGroup(c, id+"Logs", p.Key)
		groups = append(groups, *logs.LogGroupArn())
		props.Description, props.LogGroup, props.Role = jsii.String(description), logs, i.Role
		props.Code, props.Handler = code, jsii.String("bootstrap")
		props.Runtime, props.Architecture = awslambda.Runtime_PROVIDED_AL2023(), awslambda.Architecture_ARM_64()
		props.MemorySize, props.Environment = jsii.Number(memoryMB), environment(p, i.DeadLetters)
		// What fails here is in the drain queue too.
		props.RetryAttempts, props.MaxEventAge = jsii.Number(0), awscdk.Duration_Minutes(jsii.Number(5))
		return awslambda.NewFunction(c, jsii.String(id), &props)
	}
	i.Responder = function("Responder", "Weir: taints nodes that AWS is about to take", awslambda.FunctionProps{
		Timeout: awscdk.Duration_Seconds(jsii.Number(respondSeconds)),
	})
	drainer := awslambda.FunctionProps{Timeout: awscdk.Duration_Seconds(jsii.Number(drainSeconds))}
	if p.Reserved > 0 {
		drainer.ReservedConcurrentExecutions = jsii.Number(p.Reserved)
	}
	i.Drainer = function("Drainer", "Weir: drains nodes that AWS is about to take", drainer)
	p.Network.Place(c, i.Role, i.Responder, i.Drainer)
	attach(c, "LogPolicy", "Logs of Weir's interruption functions", i.Role, []Statement{ownLogs(groups...)})
	queue := attach(c, "QueuePolicy", "Drain queue of Weir", i.Role, append([]Statement{{
		Sid:       "AllowDrainQueue",
		Actions:   []string{"sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ReceiveMessage"},
		Resources: []string{*i.DrainQueue.QueueArn()},
	}, {
		Sid: "AllowDeadLetters", Actions: []string{"sqs:SendMessage"}, Resources: []string{*i.DeadLetters.QueueArn()},
	}}, p.Key.forQueues()...))
	mapping := awslambda.NewEventSourceMapping(c, jsii.String("DrainSource"), &awslambda.EventSourceMappingProps{
		Target: i.Drainer, EventSourceArn: i.DrainQueue.QueueArn(), BatchSize: jsii.Number(drainBatch),
		ReportBatchItemFailures: jsii.Bool(true), MaxConcurrency: jsii.Number(drainConcurrency),
	})
	mapping.Node().AddDependency(queue) // Lambda refuses a mapping whose role cannot read the queue
}

func logGroup(c constructs.Construct, id string, key *CustomerKey) awslogs.LogGroup {
	props := &awslogs.LogGroupProps{Retention: awslogs.RetentionDays_ONE_MONTH, RemovalPolicy: awscdk.RemovalPolicy_DESTROY}
	key.logs(props)
	return awslogs.NewLogGroup(c, jsii.String(id), props)
}

func ownLogs(groups ...string) Statement {
	return Statement{Sid: "AllowOwnLogs", Actions: []string{"logs:CreateLogStream", "logs:PutLogEvents"}, Resources: groups}
}

func environment(p InterruptionProps, dead awssqs.Queue) *map[string]*string {
	env := map[string]*string{
		"CLUSTER_NAME":      jsii.String(p.ClusterName),
		"CLUSTER_ENDPOINT":  jsii.String(p.Endpoint),
		"CLUSTER_CA_BUNDLE": jsii.String(p.CertificateAuthority),
		"WEIR_ACCOUNT":      awscdk.Aws_ACCOUNT_ID(),
		"WEIR_LEDGER":       jsii.String(LedgerNone),
		// The drain queue brings every event as well: the responder need not see a drain through.
		"WEIR_RELAY":             jsii.String("queue"),
		"WEIR_DEAD_LETTER_QUEUE": dead.QueueUrl(),
	}
	if p.Ledger != nil {
		env["WEIR_LEDGER"], env["WEIR_LEDGER_TABLE"] = jsii.String(LedgerDynamoDB), p.Ledger.Table.TableName()
	}
	return &env
}

// Event is one kind of event and its rule.
type Event struct {
	ID, Description string
	Source          string
	DetailType      string
	Detail          map[string]any
}

// Events are the kinds that the function acts on, as narrow as their fields allow:
// a rule sees every instance of the account.
func Events() []Event {
	const ec2 = "aws.ec2"
	return []Event{
		{ID: "SpotInterruption", Source: ec2, DetailType: "EC2 Spot Instance Interruption Warning", Description: "spot machines that end in two minutes"},
		{ID: "Rebalance", Source: ec2, DetailType: "EC2 Instance Rebalance Recommendation", Description: "spot machines at risk"},
		{ID: "StateChange", Source: ec2, DetailType: "EC2 Instance State-change Notification", Description: "machines that stop or end",
			Detail: map[string]any{"state": jsii.Strings("stopping", "stopped", "shutting-down", "terminated")}},
		{ID: "CapacityReservation", Source: ec2, DetailType: "EC2 Capacity Reservation Instance Interruption Warning", Description: "machines whose reserved capacity is taken back"},
		{ID: "ScheduledChange", Source: "aws.health", DetailType: "AWS Health Event", Description: "maintenance and retirement of machines",
			Detail: map[string]any{"service": jsii.Strings("EC2"), "eventTypeCategory": jsii.Strings("scheduledChange")}},
	}
}

func (i *Interruption) rules(c constructs.Construct, sweep bool) {
	for _, e := range Events() {
		pattern := &awsevents.EventPattern{Source: jsii.Strings(e.Source), DetailType: jsii.Strings(e.DetailType)}
		if e.Detail != nil {
			pattern.Detail = &e.Detail
		}
		// An event that could not be handed over for an hour is a dead letter: whatever it
		// announced has happened.
		age := awscdk.Duration_Hours(jsii.Number(1))
		awsevents.NewRule(c, jsii.String(e.ID+"Rule"), &awsevents.RuleProps{
			Description: jsii.String(fmt.Sprintf("Weir: %s", e.Description)), EventPattern: pattern,
			Targets: &[]awsevents.IRuleTarget{
				awseventstargets.NewLambdaFunction(i.Responder, &awseventstargets.LambdaFunctionProps{DeadLetterQueue: i.DeadLetters, MaxEventAge: age}),
				awseventstargets.NewSqsQueue(i.DrainQueue, &awseventstargets.SqsQueueProps{DeadLetterQueue: i.DeadLetters, MaxEventAge: age}),
			},
		})
	}
	// The sweep reads notices from the ledger. Without one there is nothing to sweep, and
	// the rule waits.
	awsevents.NewRule(c, jsii.String("SweepRule"), &awsevents.RuleProps{
		Description: jsii.String("Weir: due notices that no living scaler works on"),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(1))),
		Enabled:     jsii.Bool(sweep),
		Targets: &[]awsevents.IRuleTarget{
			// The next sweep is a minute away: one that could not be started is let go.
			awseventstargets.NewLambdaFunction(i.Drainer, &awseventstargets.LambdaFunctionProps{RetryAttempts: jsii.Number(0), MaxEventAge: awscdk.Duration_Minutes(jsii.Number(1))}),
		},
	})
}
