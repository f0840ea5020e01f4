import { Link } from '@tanstack/react-router'
import { visible } from '../../navigation.ts'
import { useSession } from '../../session/session.ts'
import { Page } from '../../ui/page.tsx'

/** The first page: every page that the person may see. */
export function Overview() {
  const { may } = useSession()
  return (
    <Page title="Overview">
      <div className="grid">
        {visible(may).map(({ title, entries }) => (
          <section key={title} className="card stack tight">
            <h2>{title ?? 'Start'}</h2>
            {entries.map((entry) => (
              <Link key={entry.to} to={entry.to}>
                {entry.title}
              </Link>
            ))}
          </section>
        ))}
      </div>
    </Page>
  )
}
