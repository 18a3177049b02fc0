package weircdk

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// alarmAge is how long an event may wait in the drain queue, in seconds: longer than a
// drain that is given up and comes back once.
const alarmAge = 2 * visibilitySeconds

// Alarms say that interruptions are not seen to as they should be. In quiet times the
// metrics have no data, which is fine.
type Alarms struct {
	All []awscloudwatch.CfnAlarm
}

// NewAlarms makes the alarms of an Interruption. topic is the ARN of an SNS topic that
// is told when one begins and when it is over; empty = nobody is told.
func NewAlarms(scope constructs.Construct, id string, i *Interruption, topic string) *Alarms {
	c := constructs.NewConstruct(scope, jsii.String(id))
	a := &Alarms{}
	add := func(name, description, namespace, metric, statistic string, threshold, periods float64, dimension, value *string) {
		props := &awscloudwatch.CfnAlarmProps{
			AlarmDescription: jsii.String(description), Namespace: jsii.String(namespace), MetricName: jsii.String(metric),
			Dimensions: []any{&awscloudwatch.CfnAlarm_DimensionProperty{Name: dimension, Value: value}},
			Statistic:  jsii.String(statistic), Period: awscdk.Duration_Minutes(jsii.Number(1)).ToSeconds(nil),
			EvaluationPeriods: jsii.Number(periods), Threshold: jsii.Number(threshold),
			ComparisonOperator: jsii.String("GreaterThanThreshold"), TreatMissingData: jsii.String("notBreaching"),
		}
		if topic != "" {
			props.AlarmActions, props.OkActions = &[]any{topic}, &[]any{topic}
		}
		a.All = append(a.All, awscloudwatch.NewCfnAlarm(c, jsii.String(name), props))
	}
	queue := jsii.String("QueueName")
	add("DeadLetters", "Weir: events that nobody could act on are in the dead-letter queue", "AWS/SQS", "ApproximateNumberOfMessagesVisible", "Maximum",
		0, 1, queue, i.DeadLetters.QueueName())
	add("DrainQueueAge", "Weir: drains take longer than their machines have left", "AWS/SQS", "ApproximateAgeOfOldestMessage", "Maximum",
		alarmAge, 3, queue, i.DrainQueue.QueueName())
	function := func(name, who string, f awslambda.Function, throttles bool) {
		dimension := jsii.String("FunctionName")
		add(name+"Errors", "Weir: the "+who+" fails", "AWS/Lambda", "Errors", "Sum", 0, 1, dimension, f.FunctionName())
		if throttles {
			add(name+"Throttles", "Weir: the "+who+" is not started for want of concurrency", "AWS/Lambda", "Throttles", "Sum", 0, 1, dimension, f.FunctionName())
		}
	}
	function("Responder", "function that taints nodes", i.Responder, true)
	// The drainer's concurrency is its brake: SQS waits for it, and the queue's age tells.
	function("Drainer", "function that drains nodes", i.Drainer, false)
	return a
}
