import type { components } from '../../api/schema.d.ts'
import { Prose } from '../../ui/code.tsx'
import { countText } from '../../ui/format.tsx'
import { Badge, Section, type Tone } from '../../ui/page.tsx'

export type Report = components['schemas']['Health']
export type Check = Report['checks'][number]

const tones: Record<Check['status'], Tone> = { pass: 'good', warn: 'warn', fail: 'wrong' }
const names: Record<Check['status'], string> = { pass: 'Passed', warn: 'Warning', fail: 'Failed' }

/** The state of a check, or of all checks. */
export const StatusBadge = ({ status }: { status: Check['status'] }) => (
  <Badge tone={tones[status]}>{names[status]}</Badge>
)

/** The findings of a report: failures and warnings with suggested fixes, then the passed checks. */
export function Findings({ checks }: { checks: readonly Check[] }) {
  const ofStatus = (status: Check['status']) => checks.filter((check) => check.status === status)
  const passed = ofStatus('pass')
  return (
    <>
      <FindingList title="Failures" checks={ofStatus('fail')} />
      <FindingList title="Warnings" checks={ofStatus('warn')} />
      {passed.length > 0 && (
        <details className="card">
          <summary>{passed.length === 1 ? '1 check passed' : `${countText(passed.length)} checks passed`}</summary>
          <List checks={passed} />
        </details>
      )}
    </>
  )
}

function FindingList({ title, checks }: { title: string; checks: readonly Check[] }) {
  if (checks.length === 0) return null
  return (
    <Section title={`${title} (${countText(checks.length)})`}>
      <div className="card">
        <List checks={checks} />
      </div>
    </Section>
  )
}

const List = ({ checks }: { checks: readonly Check[] }) => (
  <ul className="findings">
    {checks.map(({ id, area, title, status, detail, cure }) => (
      <li key={id}>
        <div className="row">
          <StatusBadge status={status} />
          <strong>{title}</strong>
          <span className="quiet small">
            {area} · <code>{id}</code>
          </span>
        </div>
        <p>
          <Prose>{detail}</Prose>
        </p>
        {cure !== undefined && (
          <p>
            <strong>What to do:</strong> <Prose>{cure}</Prose>
          </p>
        )}
      </li>
    ))}
  </ul>
)
