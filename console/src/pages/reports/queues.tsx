import { useQuery } from '@tanstack/react-query'
import { unwrap, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { countText, Time } from '../../ui/format.tsx'
import { Section } from '../../ui/page.tsx'
import { Loaded } from '../../ui/states.tsx'
import { type Column, Table } from '../../ui/table.tsx'
import { slowMs } from './parts.tsx'

type Queue = components['schemas']['Queue']

const uses: Record<Queue['queue'], string> = {
  'report.generate': 'Generate reports',
  'event.fan-out': 'Find the webhooks of an event',
  'delivery.send': 'Add tests and redeliveries',
  'webhook.settle': 'End the deliveries of stopped webhooks',
  'webhook.replay': 'Replay deliveries',
  'job.run': 'Run jobs of the service',
}

const columns: Column<Queue>[] = [
  {
    title: 'Jobs',
    cell: ({ queue }) => (
      <>
        {uses[queue]}
        <div className="quiet small">{queue}</div>
      </>
    ),
  },
  { title: 'Waiting', isNumber: true, cell: ({ waiting }) => countText(waiting) },
  { title: 'Running', isNumber: true, cell: ({ running }) => countText(running) },
  { title: 'Retrying', isNumber: true, cell: ({ repeated }) => countText(repeated) },
  { title: 'Oldest due', cell: ({ dueSince }) => <Time at={dueSince} isRelative /> },
]

/** The jobs of all nodes by queue. */
export function Queues() {
  const api = useApi()
  const query = useQuery({
    queryKey: ['queues'],
    queryFn: () => unwrap(api.GET('/api/queues')),
    refetchInterval: slowMs,
  })
  return (
    <Section title="Job queues">
      <p className="quiet small">
        A job that fails runs again until it succeeds, or until its report or delivery has failed.
      </p>
      <Loaded query={query}>
        {(queues) => <Table label="Job queues" columns={columns} rows={queues} keyOf={({ queue }) => queue} />}
      </Loaded>
    </Section>
  )
}
