import { useQuery } from '@tanstack/react-query'
import { type Api, unwrap, unwrapTagged, useApi } from '../../api/client.ts'
import type { components } from '../../api/schema.d.ts'
import { useSession } from '../../session/session.ts'
import { countText, durationText, OwnerText, percentText, Time } from '../../ui/format.tsx'
import { Badge } from '../../ui/page.tsx'

export type Webhook = components['schemas']['Webhook']
export type Delivery = components['schemas']['Delivery']
export type Attempt = Delivery['attempts'][number]
export type Statistics = components['schemas']['WebhookStatisticsReadResult']

/** The polling interval of pages with changing data, in ms. */
export const refreshMs = 15_000

export const webhookKey = (id: string) => ['webhook', id] as const

/** Reads one webhook with its entity tag. */
export const readWebhook = (api: Api, id: string) =>
  unwrapTagged(api.GET('/api/webhooks/{id}', { params: { path: { id } } }))

export function useWebhook(id: string) {
  const api = useApi()
  return useQuery({ queryKey: webhookKey(id), queryFn: () => readWebhook(api, id), refetchInterval: refreshMs })
}

/** Reads the statistics of the listed webhooks, by id. */
export function useStatistics(ids: readonly string[]) {
  const api = useApi()
  return useQuery({
    queryKey: ['webhook-statistics', ...ids],
    queryFn: async () => {
      const found: Statistics[] = []
      for (let at = 0; at < ids.length; at += 100) {
        const query = { ids: ids.slice(at, at + 100).join(',') }
        found.push(...(await unwrap(api.GET('/api/webhooks/statistics', { params: { query } }))))
      }
      return new Map(found.map((one) => [one.webhookId, one]))
    },
    enabled: ids.length > 0,
    refetchInterval: refreshMs,
    placeholderData: (before) => before,
  })
}

/** Reads the event types. */
export function useEventTypes() {
  const api = useApi()
  return useQuery({
    queryKey: ['event-types'],
    queryFn: () => unwrap(api.GET('/api/event-types')),
    staleTime: 600_000,
  })
}

/**
 * Returns true if the webhook belongs to the user. Users who are not administrators see only their own webhooks,
 * without an owner.
 */
export function useIsOwn({ ownerClient, ownerSubject }: Webhook): boolean {
  const { person } = useSession()
  return ownerClient === undefined || (ownerClient === 'console' && ownerSubject === person.id)
}

/** Shows the owner of a webhook. Only administrators see other owners; for any other user, this is "You". */
export const WebhookOwner = ({ of: { ownerClient, ownerSubject } }: { of: Webhook }) =>
  ownerClient === undefined ? <>You</> : <OwnerText ownerClient={ownerClient} ownerSubject={ownerSubject} />

export function WebhookState({ webhook, statistics }: { webhook: Webhook; statistics?: Statistics | undefined }) {
  const { status, statusReason } = webhook
  if (status === 'paused') return <Badge>paused</Badge>
  if (status === 'disabled')
    return (
      <>
        <Badge tone="wrong">disabled</Badge>
        {statusReason !== undefined && <div className="quiet small">{statusReason}</div>}
      </>
    )
  if (statistics?.failingSince === undefined) return <Badge tone="good">active</Badge>
  return (
    <>
      <Badge tone="warn">failing</Badge>
      <div className="quiet small">
        for {durationText(Date.now() - Date.parse(statistics.failingSince))},{' '}
        {countText(statistics.consecutiveFailures)} in a row
      </div>
    </>
  )
}

export function DeliveryState({ delivery: { status, attempts } }: { delivery: Delivery }) {
  if (status === 'delivered') return <Badge tone="good">delivered</Badge>
  if (status === 'failed') return <Badge tone="wrong">failed</Badge>
  return <Badge tone={attempts.length > 0 ? 'warn' : 'info'}>{attempts.length > 0 ? 'retrying' : 'pending'}</Badge>
}

export const rateText = (statistics: Statistics | undefined) =>
  statistics?.successRate === undefined ? '–' : percentText(statistics.successRate)
export const latencyText = (ms: number | undefined) => (ms === undefined ? '–' : durationText(ms))

const [barWidth, gap, height] = [4, 1, 24]

/** A bar chart of the attempts in each of the last 24 hours, with failed attempts in another color at the bottom. */
export function Sparkline({ statistics }: { statistics: Statistics | undefined }) {
  if (statistics === undefined || statistics.attempts === 0) return <span className="quiet">–</span>
  const { hours, attempts, failed } = statistics
  const most = Math.max(...hours.map((hour) => hour.succeeded + hour.failed))
  const pixels = (count: number) => (count === 0 ? 0 : Math.max(1.5, (count / most) * height))
  const label = `${countText(attempts)} attempts in 24 hours, ${countText(failed)} failed`
  return (
    <svg
      className="sparkline"
      role="img"
      aria-label={label}
      viewBox={`0 0 ${hours.length * (barWidth + gap)} ${height}`}
      width={hours.length * (barWidth + gap)}
      height={height}
    >
      {hours.map((hour, at) => {
        const [bad, good] = [pixels(hour.failed), pixels(hour.succeeded)]
        const x = at * (barWidth + gap)
        return (
          <g key={hour.start}>
            <rect className="idle" x={x} y={height - 1} width={barWidth} height={1} />
            <rect className="wrong" x={x} y={height - bad} width={barWidth} height={bad} />
            <rect className="good" x={x} y={height - bad - good} width={barWidth} height={good} />
          </g>
        )
      })}
    </svg>
  )
}

/**
 * Shows when a delivery is sent next. A failing endpoint gets one request at a time, so a delivery that is due may have
 * to wait.
 */
export function NextAttempt({ at }: { at: string | undefined }) {
  if (at !== undefined && Date.parse(at) < Date.now()) return <>when the endpoint is free</>
  return <Time at={at} isRelative />
}
