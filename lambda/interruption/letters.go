package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/weir-project/weir/core/cloud/aws/sdkconf"
	"github.com/weir-project/weir/lambda/interruption/respond"
)

// The sizes of a dead letter; SQS takes no more than 256 KiB in all where it was not told to take more.
const (
	longestBody   = 200 << 10
	longestReason = 1 << 10
	letterWithin  = 2 * time.Second // one attempt
)

// deadLetters is a queue of SQS. Most processes never send one, so that its client is made when the first one is.
type deadLetters struct {
	url, region string

	once   sync.Once
	client *sqs.Client
	err    error
}

var _ respond.DeadLetters = (*deadLetters)(nil)

// Keep implements respond.DeadLetters.
func (d *deadLetters) Keep(ctx context.Context, l respond.DeadLetter) error {
	d.once.Do(func() {
		var cfg sdk.Config
		cfg, d.err = sdkconf.Load(ctx, sdkconf.Options{Region: d.region, AttemptTimeout: letterWithin, Program: "weir-interruption"})
		if d.err == nil {
			d.client = sqs.NewFromConfig(cfg)
		}
	})
	if d.err != nil {
		return d.err
	}
	text := func(s string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: sdk.String("String"), StringValue: &s}
	}
	attributes := map[string]types.MessageAttributeValue{"reason": text(printable(l.Reason, longestReason))}
	if l.Message != "" {
		attributes["messageId"] = text(printable(l.Message, longestReason))
	}
	body := printable(l.Body, longestBody)
	if body == "" {
		body = "(empty)" // which SQS does not take
	}
	if _, err := d.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &d.url, MessageBody: &body, MessageAttributes: attributes}); err != nil {
		return fmt.Errorf("sending a dead letter to %s: %w", d.url, err)
	}
	return nil
}

// printable is a text as SQS takes it: not every character is one of XML 1.0.
func printable(s string, most int) string {
	if len(s) > most {
		s = s[:most]
	}
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' || r >= ' ' && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000 {
			return r
		}
		return '\uFFFD'
	}, strings.ToValidUTF8(s, "\uFFFD"))
}
