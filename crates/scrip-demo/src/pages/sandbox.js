// Sandbox cards by what comes of them. The tests pay with each of them and hold it to its word: `ends` is the
// status in the end, or that of the failed request, `asks` whether the bank shows a page.

export const STORIES = [
  {
    title: "It works",
    cards: [
      { number: "5204247750001471", tells: "Paid at once", ends: "successful" },
      { number: "4000020000000000", tells: "The bank asks for a code", ends: "successful", asks: true },
      { number: "370000000000002", tells: "The same with American Express", ends: "successful", asks: true },
      { number: "4000000000000341", tells: "The bank's app asks", ends: "successful", asks: true },
      { number: "4005562231212123", tells: "A code, no look at the browser", ends: "successful", asks: true },
      { number: "4111111111111111", tells: "The bank tried, and vouches", ends: "attempted" },
    ],
  },
  {
    title: "It does not",
    cards: [
      { number: "5405001111111116", tells: "Rejected at once", ends: "rejected" },
      { number: "4264281511112228", tells: "Failed at once", ends: "failed" },
      { number: "4055011111111111", tells: "Asked, and failed", ends: "failed", asks: true },
      { number: "6011361000001115", tells: "Asked, and rejected", ends: "rejected", asks: true },
    ],
  },
  {
    title: "Nobody knows",
    cards: [
      { number: "5405001111111165", tells: "The bank cannot tell", ends: "unavailable" },
      { number: "4264281500003339", tells: "The card scheme does not answer", ends: 424 },
      { number: "4264281500001119", tells: "No common version of 3-D Secure", ends: 424 },
      { number: "4100000000000003", tells: "Not a card for 3-D Secure", ends: 424 },
    ],
  },
];

export const CARDS = STORIES.flatMap((it) => it.cards);
