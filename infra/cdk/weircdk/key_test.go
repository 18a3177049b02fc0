package weircdk

import (
	"slices"
	"strings"
	"testing"
)

const givenKey = "arn:aws:kms:us-east-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"

// TestCustomerKey: everything that stores is encrypted with the key, and whoever reads and
// writes there may use it, by way of that service alone.
func TestCustomerKey(t *testing.T) {
	t.Parallel()
	for given, key := range map[string]string{KeyCreate: "${EncryptionKey.Arn}", givenKey: givenKey} {
		t.Run(given, func(t *testing.T) {
			t.Parallel()
			tp := synth(t, func(c *Config) { c.Key = given; c.DiscoverySubnets = []string{"subnet-0aaaaaa1"} })
			if got := show(tp.get(t, "LedgerTable").Properties["SSESpecification"]); got != "KMSMasterKeyId="+key+"; SSEEnabled=true; SSEType=KMS" {
				t.Errorf("the table is encrypted with %s", got)
			}
			queues, groups := tp.ofType("AWS::SQS::Queue"), tp.ofType("AWS::Logs::LogGroup")
			for id, r := range queues {
				if p := r.Properties; show(p["KmsMasterKeyId"]) != key || show(p["SqsManagedSseEnabled"]) != "false" || show(p["KmsDataKeyReusePeriodSeconds"]) != "300" {
					t.Errorf("queue %s is %s", id, show(p))
				}
			}
			for id, r := range groups {
				if got := show(r.Properties["KmsKeyId"]); got != key {
					t.Errorf("log group %s is encrypted with %s", id, got)
				}
			}
			if len(queues) != 2 || len(groups) != 4 {
				t.Errorf("%d queues and %d log groups, expected 2 and 4", len(queues), len(groups))
			}
			var rights []string
			for _, s := range statements(tp) {
				actions := show(s.data["Action"])
				if !strings.Contains(actions, "kms:") || strings.HasPrefix(s.id, "Encryption") {
					continue
				}
				rights = append(rights, s.id+" "+show(s.data["Sid"])+" "+show(s.data["Condition"]))
				if show(s.data["Resource"]) != key || strings.Contains(actions, "*") || strings.Contains(actions, "kms:CreateGrant") {
					t.Errorf("%s: %s on %s", s.id, actions, show(s.data["Resource"]))
				}
			}
			slices.Sort(rights)
			equal(t, "rights on the key", rights, []string{
				"InterruptionLedgerPolicy AllowLedgerKey StringEquals=kms:ViaService=dynamodb.${AWS::Region}.amazonaws.com",
				"InterruptionQueuePolicy AllowQueueKey StringEquals=kms:ViaService=sqs.${AWS::Region}.amazonaws.com",
				"ScalerRoleLedgerPolicy AllowLedgerKey StringEquals=kms:ViaService=dynamodb.${AWS::Region}.amazonaws.com",
			})
			// The queues let in only the rules, as they do without a key.
			for _, s := range statements(tp) {
				if strings.Contains(show(s.data["Principal"]), "events.amazonaws.com") && strings.Contains(show(s.data["Action"]), "sqs:SendMessage") && !strings.Contains(show(s.data["Condition"]), "aws:SourceArn") {
					t.Errorf("%s lets in any rule: %s", s.id, show(s.data))
				}
			}
			if got := show(tp.Outputs["KeyArn"].(map[string]any)["Value"]); got != key {
				t.Errorf("output KeyArn is %s", got)
			}
			keys := tp.ofType("AWS::KMS::Key")
			if given != KeyCreate {
				if len(keys) != 0 {
					t.Errorf("a key is made beside the given one: %v", keys)
				}
				return
			}
			r := tp.get(t, "EncryptionKey")
			if r.Properties["EnableKeyRotation"] != true || r.DeletionPolicy != "Retain" {
				t.Errorf("the key rotates: %v, and is kept: %s", r.Properties["EnableKeyRotation"], r.DeletionPolicy)
			}
			var policy []string
			for _, s := range r.Properties["KeyPolicy"].(map[string]any)["Statement"].([]any) {
				m := s.(map[string]any)
				policy = append(policy, show(m["Principal"])+" "+show(m["Action"])+" "+show(m["Condition"]))
			}
			equal(t, "policy of the key", policy, []string{
				"AWS=arn:${AWS::Partition}:iam::${AWS::AccountId}:root kms:* -",
				"Service=logs.${AWS::Region}.amazonaws.com kms:Decrypt, kms:DescribeKey, kms:Encrypt, kms:GenerateDataKey, kms:GenerateDataKeyWithoutPlaintext, kms:ReEncryptFrom, kms:ReEncryptTo ArnLike=kms:EncryptionContext:aws:logs:arn=arn:${AWS::Partition}:logs:${AWS::Region}:${AWS::AccountId}:log-group:*",
				"Service=events.amazonaws.com kms:Decrypt, kms:GenerateDataKey StringEquals=aws:SourceAccount=${AWS::AccountId}",
			})
		})
	}
}
