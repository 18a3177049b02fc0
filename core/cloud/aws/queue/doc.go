// Package queue reads interruption events from an SQS queue, such as the one that people's Karpenter has.
//
// What comes in is the queue's name and the SDK's client; what goes out are the events of its messages, read by core/event, and
// word of whether the queue can be read. A message is deleted when whoever took its events says that all of them are settled;
// until then it is handed over again each time it comes, so that no notice is lost with a process. A message that cannot be read
// never gets better: it is logged with its reason and deleted.
//
// It decides nothing about nodes, and a queue that is missing or forbidden keeps nobody from anything else: it is asked for again.
package queue
