import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { unwrap, useApi } from '../../api/client.ts'
import { useSession } from '../../session/session.ts'
import { Button } from '../../ui/button.tsx'
import { Code } from '../../ui/code.tsx'
import { CopyButton } from '../../ui/copy.tsx'
import { durationText, prettyText, Time } from '../../ui/format.tsx'
import { Badge, Facts, Page, Section } from '../../ui/page.tsx'
import { Loaded, messageOf } from '../../ui/states.tsx'
import { toast } from '../../ui/toast.tsx'
import { type Attempt, type Delivery, DeliveryState, NextAttempt, refreshMs, useWebhook } from './parts.tsx'

const fastMs = 2_000

/** One delivery: its request, and a timeline of the attempts with their responses. */
export function DeliveryPage() {
  const { id, deliveryId } = useParams({ from: '/webhooks/$id/deliveries/$deliveryId' })
  const api = useApi()
  const query = useQuery({
    queryKey: ['deliveries', id, deliveryId],
    queryFn: () =>
      unwrap(api.GET('/api/webhooks/{id}/deliveries/{deliveryId}', { params: { path: { id, deliveryId } } })),
    refetchInterval: ({ state: { data } }) => (data?.status === 'pending' ? fastMs : refreshMs),
  })
  return (
    <Loaded query={query}>
      {(delivery) => (
        <Page
          title={delivery.event}
          about={
            <>
              <Link to="/webhooks">Webhooks</Link> ·{' '}
              <Link to="/webhooks/$id" params={{ id }}>
                its endpoint
              </Link>{' '}
              · delivery {delivery.id}
            </>
          }
          actions={<Redeliver id={id} delivery={delivery} />}
        >
          <About delivery={delivery} />
          <Section title="Attempts">
            <TimeLine delivery={delivery} />
          </Section>
          <Section title="Request">
            <Request id={id} delivery={delivery} />
          </Section>
        </Page>
      )}
    </Loaded>
  )
}

function Redeliver({ id, delivery }: { id: string; delivery: Delivery }) {
  const { may } = useSession()
  const api = useApi()
  const queries = useQueryClient()
  const sending = useMutation({
    mutationFn: () => {
      const path = { id, deliveryId: delivery.id }
      return unwrap(api.POST('/api/webhooks/{id}/deliveries/{deliveryId}/redeliver', { params: { path } }))
    },
    onSuccess: () => toast('Sending again'),
    onError: (error) => toast(messageOf(error)),
    onSettled: () => queries.invalidateQueries({ queryKey: ['deliveries', id] }),
  })
  if (!may('webhooks:write')) return null
  return (
    <Button look="primary" isDisabled={sending.isPending} onPress={() => sending.mutate()}>
      Send again
    </Button>
  )
}

function About({ delivery }: { delivery: Delivery }) {
  const { eventId, reason, createdAt, completedAt, nextAttemptAt, test } = delivery
  return (
    <section className="card">
      <Facts
        of={[
          ['State', <DeliveryState key="state" delivery={delivery} />],
          ...(reason === undefined ? [] : ([['Why it ended', reason]] as const)),
          ...(test ? ([['Test', 'yes: it has a single attempt']] as const) : []),
          ['Created', <Time key="created" at={createdAt} />],
          nextAttemptAt === undefined
            ? ['Ended', <Time key="ended" at={completedAt} />]
            : ['Next attempt', <NextAttempt key="next" at={nextAttemptAt} />],
          ['webhook-id', <code key="id">{eventId}</code>],
        ]}
      />
    </section>
  )
}

function TimeLine({ delivery: { attempts, nextAttemptAt, createdAt } }: { delivery: Delivery }) {
  return (
    <ol className="time-line">
      <li>
        <Time at={createdAt} /> <span className="quiet">The event occurred.</span>
      </li>
      {attempts.map((attempt) => (
        <li key={attempt.attempt} className={attempt.error === undefined ? 'good' : 'wrong'}>
          <AttemptEntry attempt={attempt} />
          <Response attempt={attempt} />
        </li>
      ))}
      {nextAttemptAt !== undefined && (
        <li className="next">
          <span className="quiet">Next attempt:</span> <NextAttempt at={nextAttemptAt} />
        </li>
      )}
    </ol>
  )
}

function AttemptEntry({ attempt: { attempt, startedAt, durationMs, statusCode, error } }: { attempt: Attempt }) {
  return (
    <div className="row">
      <Time at={startedAt} />
      <strong>Attempt {attempt}</strong>
      {statusCode !== undefined && <Badge tone={error === undefined ? 'good' : 'wrong'}>{statusCode}</Badge>}
      {error !== undefined && <span>{error}</span>}
      <span className="quiet">{durationText(durationMs)}</span>
    </div>
  )
}

function Response({ attempt: { attempt, statusCode, responseStart, responseHeaders } }: { attempt: Attempt }) {
  if (statusCode === undefined) return <p className="quiet small">There was no response.</p>
  if (responseStart === undefined)
    return <p className="quiet small">The response is shown only to those who may read the event.</p>
  const headers = Object.entries(responseHeaders ?? {})
  return (
    <details>
      <summary>Response</summary>
      <div className="stack tight">
        {headers.length > 0 && (
          <Code label={`Headers of response ${attempt}`}>
            {headers.map(([name, value]) => `${name}: ${value}`).join('\n')}
          </Code>
        )}
        {responseStart === '' ? (
          <p className="quiet small">It had no body.</p>
        ) : (
          <Code label={`Body of response ${attempt}`}>{prettyText(responseStart)}</Code>
        )}
      </div>
    </details>
  )
}

function Request({ id, delivery: { request } }: { id: string; delivery: Delivery }) {
  const { data } = useWebhook(id)
  if (request === undefined)
    return (
      <p className="notice">
        You may not read this event: it needs the read scope of its resource and access to the row, or, for a report,
        the owner of the webhook.
      </p>
    )
  const own = Object.entries(data?.row.headers ?? {})
  const { method, url, headers, body } = request
  const line = ([name, value]: [string, string]) => `${name}: ${value}`
  const head = [`${method} ${url}`, ...Object.entries(headers).map(line), ...own.map(line)].join('\n')
  return (
    <div className="stack tight">
      <Code label="Request headers">{head}</Code>
      <p className="quiet small">
        webhook-timestamp, webhook-attempt and webhook-signature differ on each attempt and are not stored.
      </p>
      <Code label="Request body">{prettyText(body)}</Code>
      <div className="row">
        <CopyButton text={body} label="Copy the exact body" />
      </div>
    </div>
  )
}
