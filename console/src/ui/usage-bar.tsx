/**
 * A bar that shows a fraction of a total. It is hidden from screen readers, so the text next to it must state the
 * value.
 */
export function UsageBar({ share, tone }: { share: number; tone?: 'warn' | 'wrong' | undefined }) {
  const percent = Math.min(100, Math.max(0, share * 100))
  return (
    <div className={tone ? `bar ${tone}` : 'bar'} aria-hidden="true">
      <span style={{ width: `${percent}%` }} />
    </div>
  )
}
