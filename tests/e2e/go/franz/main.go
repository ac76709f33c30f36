// SPDX-License-Identifier: Apache-2.0

// franz-go as a helper of the tests.
//
//	franz BOOTSTRAP                                            answers the words of tests/e2e/client_words.py, all of them
//	franz member BOOTSTRAP GROUP TOPIC STRATEGY [INSTANCE]     a member as tests/e2e/member_confluent.py describes it; strategies:
//	                                                           range, roundrobin, sticky, cooperative-sticky
package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/tests/e2e/go/words"
)

const patience = 50 * time.Second

type client struct {
	bootstrap string
	admin     *kadm.Client
	producers map[string]*kgo.Client
}

func in() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// told keeps the broker's words with its error.
func told(err error, message string) error {
	var code *kerr.Error
	if errors.As(err, &code) && message != "" {
		return &words.Failed{Name: code.Message, Message: message}
	}
	return err
}

func nameOf(err error) string {
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Message
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "TIMED_OUT"
	}
	return ""
}

func (c *client) create(args []string, _ []words.Record) ([]words.Row, error) {
	partitions, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	configs := map[string]*string{}
	for name, value := range words.Configs(args[2]) {
		configs[name] = &value
	}
	ctx, cancel := in()
	defer cancel()
	answer, err := c.admin.CreateTopic(ctx, int32(partitions), 1, configs, args[0])
	return nil, told(err, answer.ErrMessage)
}

func (c *client) delete(args []string, _ []words.Record) ([]words.Row, error) {
	ctx, cancel := in()
	defer cancel()
	answer, err := c.admin.DeleteTopic(ctx, args[0])
	return nil, told(err, answer.ErrMessage)
}

func (c *client) topics([]string, []words.Record) ([]words.Row, error) {
	ctx, cancel := in()
	defer cancel()
	topics, err := c.admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	var rows []words.Row
	for _, name := range topics.Names() {
		rows = append(rows, words.Row{name})
	}
	return words.Sorted(rows), nil
}

func configRows(answer kadm.ResourceConfigs, err error) ([]words.Row, error) {
	if err != nil {
		return nil, err
	}
	var rows []words.Row
	for _, resource := range answer {
		if resource.Err != nil {
			return nil, told(resource.Err, resource.ErrMessage)
		}
		for _, config := range resource.Configs {
			rows = append(rows, words.Row{config.Key, config.MaybeValue()})
		}
	}
	return words.Sorted(rows), nil
}

func (c *client) configs(args []string, _ []words.Record) ([]words.Row, error) {
	ctx, cancel := in()
	defer cancel()
	return configRows(c.admin.DescribeTopicConfigs(ctx, args[0]))
}

func (c *client) brokerConfigs([]string, []words.Record) ([]words.Row, error) {
	ctx, cancel := in()
	defer cancel()
	brokers, err := c.admin.ListBrokers(ctx)
	if err != nil {
		return nil, err
	}
	return configRows(c.admin.DescribeBrokerConfigs(ctx, brokers.NodeIDs()[0]))
}

func alterations(text string) []kadm.AlterConfig {
	var out []kadm.AlterConfig
	for name, value := range words.Configs(text) {
		out = append(out, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	return out
}

func altered(answer kadm.AlterConfigsResponses, err error) ([]words.Row, error) {
	for _, resource := range answer {
		if err == nil {
			err = told(resource.Err, resource.ErrMessage)
		}
	}
	return nil, err
}

func (c *client) alterConfigs(args []string, _ []words.Record) ([]words.Row, error) {
	ctx, cancel := in()
	defer cancel()
	return altered(c.admin.AlterTopicConfigs(ctx, alterations(args[1]), args[0]))
}

func (c *client) replaceConfigs(args []string, _ []words.Record) ([]words.Row, error) {
	ctx, cancel := in()
	defer cancel()
	return altered(c.admin.AlterTopicConfigsState(ctx, alterations(args[1]), args[0]))
}

func (c *client) addPartitions(args []string, _ []words.Record) ([]words.Row, error) {
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return nil, err
	}
	ctx, cancel := in()
	defer cancel()
	answer, err := c.admin.UpdatePartitions(ctx, count, args[0])
	for _, topic := range answer {
		if err == nil {
			err = told(topic.Err, topic.ErrMessage)
		}
	}
	return nil, err
}

func (c *client) listOffsets(args []string, _ []words.Record) ([]words.Row, error) {
	ctx, cancel := in()
	defer cancel()
	var listed kadm.ListedOffsets
	var err error
	switch args[1] {
	case "earliest":
		listed, err = c.admin.ListStartOffsets(ctx, args[0])
	case "latest":
		listed, err = c.admin.ListEndOffsets(ctx, args[0])
	default:
		var at int64
		if at, err = strconv.ParseInt(args[1], 10, 64); err == nil {
			listed, err = c.admin.ListOffsetsAfterMilli(ctx, at, args[0])
		}
	}
	if err == nil {
		err = listed.Error()
	}
	var rows []words.Row
	listed.Each(func(l kadm.ListedOffset) { rows = append(rows, words.Row{l.Partition, l.Offset}) })
	return words.Sorted(rows), err
}

func (c *client) deleteRecords(args []string, _ []words.Record) ([]words.Row, error) {
	before, err := words.Offsets(args[1])
	if err != nil {
		return nil, err
	}
	offsets := kadm.Offsets{}
	for partition, offset := range before {
		offsets.AddOffset(args[0], partition, offset, -1)
	}
	ctx, cancel := in()
	defer cancel()
	answer, err := c.admin.DeleteRecords(ctx, offsets)
	if err == nil {
		err = answer.Error()
	}
	return nil, err
}

func (c *client) groups([]string, []words.Record) ([]words.Row, error) {
	ctx, cancel := in()
	defer cancel()
	listed, err := c.admin.ListGroups(ctx)
	var rows []words.Row
	for _, group := range listed.Groups() {
		rows = append(rows, words.Row{group})
	}
	return words.Sorted(rows), err
}

func (c *client) group(args []string, _ []words.Record) ([]words.Row, error) {
	ctx, cancel := in()
	defer cancel()
	described, err := c.admin.DescribeGroups(ctx, args[0])
	if err != nil {
		return nil, err
	}
	group := described[args[0]]
	rows := []words.Row{{group.State, len(group.Members)}}
	for _, member := range group.Members {
		instance := ""
		if member.InstanceID != nil {
			instance = *member.InstanceID
		}
		rows = append(rows, words.Row{member.MemberID, instance, member.ClientID, member.ClientHost})
	}
	return rows, told(group.Err, group.ErrMessage)
}

func (c *client) committed(args []string, _ []words.Record) ([]words.Row, error) {
	ctx, cancel := in()
	defer cancel()
	fetched, err := c.admin.FetchOffsets(ctx, args[0])
	if err == nil {
		err = fetched.Error()
	}
	var rows []words.Row
	for partition, offset := range fetched[args[1]] {
		rows = append(rows, words.Row{partition, offset.At})
	}
	return words.Sorted(rows), err
}

func (c *client) deleteGroup(args []string, _ []words.Record) ([]words.Row, error) {
	ctx, cancel := in()
	defer cancel()
	answer, err := c.admin.DeleteGroup(ctx, args[0])
	return nil, told(err, answer.ErrMessage)
}

// producer is kept, so that what it knows of topics and of its sequences outlives them and the broker.
func (c *client) producer(codec string) (*kgo.Client, error) {
	if producer, is := c.producers[codec]; is {
		return producer, nil
	}
	compression, is := map[string]kgo.CompressionCodec{"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(),
		"snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression()}[codec]
	if !is {
		return nil, &words.Failed{Name: "NO_SUCH_CODEC", Message: codec}
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap), kgo.ProducerBatchCompression(compression),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(20*time.Millisecond),
		kgo.MetadataMaxAge(time.Second), kgo.MetadataMinAge(200*time.Millisecond))
	if err == nil {
		c.producers[codec] = producer
	}
	return producer, err
}

func (c *client) produce(args []string, records []words.Record) ([]words.Row, error) {
	producer, err := c.producer(args[1])
	if err != nil {
		return nil, err
	}
	out := make([]*kgo.Record, 0, len(records))
	for _, r := range records {
		record := &kgo.Record{Topic: args[0], Partition: r.Partition, Timestamp: time.UnixMilli(r.Timestamp), Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		out = append(out, record)
	}
	ctx, cancel := in()
	defer cancel()
	if err := producer.ProduceSync(ctx, out...).FirstErr(); err != nil {
		if errors.Is(err, kerr.UnknownTopicID) {
			producer.PurgeTopicsFromProducing(args[0]) // it takes up a topic that was made again only when it is told to forget the old one
		}
		return nil, err
	}
	rows := make([]words.Row, 0, len(out))
	for _, record := range out {
		rows = append(rows, words.Row{record.Partition, record.Offset})
	}
	return rows, nil
}

func (c *client) consume(args []string, _ []words.Record) ([]words.Row, error) {
	left, err := words.Offsets(args[1])
	if err != nil {
		return nil, err
	}
	where, err := words.ReadWhere(args, 2)
	if err != nil {
		return nil, err
	}
	from := map[string]kgo.Offset{"beginning": kgo.NewOffset().AtStart(), "offset": kgo.NewOffset().At(where.At),
		"time": kgo.NewOffset().AfterMilli(where.At)}[where.Kind]
	partitions := map[int32]kgo.Offset{}
	for partition, end := range left {
		if end == 0 {
			delete(left, partition)
			continue
		}
		partitions[partition] = from
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{args[0]: partitions}))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	ctx, cancel := in()
	defer cancel()
	var out []words.Record
	for len(left) > 0 {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, is := left[r.Partition]
			if !is || r.Offset >= end {
				return
			}
			record := words.Record{Partition: r.Partition, Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(), Key: r.Key, Value: r.Value}
			for _, h := range r.Headers {
				record.Headers = append(record.Headers, words.Header{Name: h.Key, Value: h.Value})
			}
			out = append(out, record)
			if r.Offset+1 >= end {
				delete(left, r.Partition)
			}
		})
	}
	return words.RecordRows(out), nil
}

// ---- a member ----

func member(ctx context.Context, args words.MemberArgs) error {
	balancer, is := map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
		"sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer()}[args.Strategy]
	if !is {
		return errors.New("no such strategy: " + args.Strategy)
	}
	moved := func(word string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			words.Say(word, words.Partitions(partitions[args.Topic]))
		}
	}
	options := []kgo.Opt{kgo.SeedBrokers(args.Bootstrap), kgo.ConsumerGroup(args.Group), kgo.ConsumeTopics(args.Topic),
		kgo.Balancers(balancer), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(args.Session), kgo.HeartbeatInterval(500 * time.Millisecond), kgo.MetadataMaxAge(2 * time.Second), kgo.MetadataMinAge(500 * time.Millisecond),
		kgo.OnPartitionsAssigned(moved("assigned")), kgo.OnPartitionsRevoked(moved("revoked")), kgo.OnPartitionsLost(moved("lost"))}
	if args.Instance != "" {
		options = append(options, kgo.InstanceID(args.Instance))
	}
	consumer, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		fetches := consumer.PollRecords(ctx, 100)
		fetches.EachRecord(func(r *kgo.Record) { words.Say("record", r.Partition, r.Offset) })
		if !fetches.Empty() {
			waits, done := context.WithTimeout(context.Background(), 20*time.Second)
			if err := consumer.CommitRecords(waits, fetches.Records()...); err != nil {
				words.Say("uncommitted", words.NameOr(nameOf, err))
			} else {
				words.Say("committed")
			}
			done()
		}
		consumer.AllowRebalance()
	}
	consumer.CloseAllowingRebalance()
	words.Say("closed")
	return nil
}

func main() {
	if words.RunMember(member) {
		return
	}
	c := &client{bootstrap: os.Args[1], producers: map[string]*kgo.Client{}}
	admin, err := kgo.NewClient(kgo.SeedBrokers(c.bootstrap))
	if err != nil {
		panic(err)
	}
	c.admin = kadm.NewClient(admin)
	words.Serve(map[string]words.Call{
		"create": c.create, "delete": c.delete, "topics": c.topics, "configs": c.configs, "broker_configs": c.brokerConfigs,
		"alter_configs": c.alterConfigs, "replace_configs": c.replaceConfigs, "add_partitions": c.addPartitions,
		"list_offsets": c.listOffsets, "delete_records": c.deleteRecords, "produce": c.produce, "consume": c.consume,
		"groups": c.groups, "group": c.group, "committed": c.committed, "delete_group": c.deleteGroup,
	}, nameOf)
}
