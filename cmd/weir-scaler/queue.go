package main

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/weir-project/weir/core/cloud/aws/queue"
	"github.com/weir-project/weir/core/control"
	"github.com/weir-project/weir/core/event"
)

type queueAPI = queue.API

// hear makes the reader of the interruption queue; only a leader runs it. It is called before the loop turns.
func (l *loop) hear(api queueAPI, name string) (run func(context.Context)) {
	m := l.watch.m
	m.QueueUp.WithLabelValues().Set(0)
	q := queue.New(api, name, time.Now, queue.Handlers{
		Received: func(r queue.Received) {
			if r.Err != nil {
				l.log.Error("a message that cannot be read is deleted", zap.String("message", r.ID), zap.Error(r.Err))
				m.NoticesIgnored.WithLabelValues("unreadable").Inc()
				return
			}
			l.hand(r.Event, !r.Again)
		},
		State: func(err error) {
			s := control.Source{Name: name}
			if err != nil {
				s.Down = err.Error()
				l.log.Error("the interruption queue cannot be read, it is tried again", zap.Error(err))
				m.QueueUp.WithLabelValues().Set(0)
			} else {
				l.log.Info("the interruption queue is read", zap.String("queue", name))
				m.QueueUp.WithLabelValues().Set(1)
			}
			l.box.put(s)
		},
		Deleted: func(n int) { m.MessagesDeleted.WithLabelValues().Add(float64(n)) },
		Failed: func(err error) {
			l.log.Warn("messages that are done with were not deleted and come again", zap.Error(err))
		},
	})
	l.settled = func(ids []control.NoticeID) {
		keys := make([]queue.Key, len(ids))
		for i, id := range ids {
			keys[i] = queue.Key(id)
		}
		q.Settled(keys...)
	}
	return func(ctx context.Context) {
		q.Run(ctx)
		m.QueueUp.WithLabelValues().Set(0)
	}
}

// hand gives the notices of an event to the loop; one that came before is not counted again.
func (l *loop) hand(e *event.Parsed, first bool) {
	if first {
		l.watch.m.MessagesReceived.WithLabelValues(e.Type).Inc()
		if e.Ignored != "" {
			l.watch.m.NoticesIgnored.WithLabelValues(e.Type).Inc()
		}
		for _, w := range e.Warnings {
			l.log.Warn("event", zap.String("event", e.ID), zap.String("leftOut", w))
		}
	}
	for _, n := range e.Notices {
		if first {
			l.log.Info("notice", zap.String("kind", string(n.Kind)), zap.String("instance", n.InstanceID), zap.Timep("deadline", n.Deadline))
			l.watch.m.MessageAge.WithLabelValues().Observe(time.Since(n.Time).Seconds())
		}
		l.box.put(control.Notice{Notice: n})
	}
}
